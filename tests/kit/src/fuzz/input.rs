//! Bytes that are read as choices: few bytes a choice, so that a small change of an input is a
//! small change of what happens.

/// What is left of an input. When it is used up, every choice is the first one.
#[derive(Clone, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of it.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether it is used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `end`; zero where `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        let bytes = (u64::BITS - end.saturating_sub(1).leading_zeros()).div_ceil(8);
        let number = (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()));
        number % end.max(1)
    }

    /// A place in a list of this length.
    pub fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.place(choices.len())]
    }

    /// Any number: mostly a small one, sometimes one near an end.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..224 => u64::from(small),
            224..240 => self.below(1 << 16),
            240..248 => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
            248..252 => u64::MAX - u64::from(self.byte()),
            252.. => (u64::MAX >> 1) + u64::from(self.byte()),
        }
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// The next bytes, at most so many.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_take_as_few_bytes_as_they_can() {
        let mut input = Input::new(&[7, 1, 0, 9]);
        assert_eq!(input.below(1), 0);
        assert_eq!(input.below(5), 2);
        assert_eq!(input.below(257), 1 << 8);
        assert_eq!(input.take(5), [9]);
        assert!(input.is_empty());
        assert_eq!((input.below(9), input.number(), input.pick(&["a", "b"])), (0, 0, "a"));
    }
}
