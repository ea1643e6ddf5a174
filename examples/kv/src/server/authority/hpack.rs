//! As much of header compression (RFC 7541) as it takes to find one value that is written out.
//! What is known by number is passed over, so that no table has to be kept.

use std::ops::Range;

/// The number of `:authority` in the static table (RFC 7541, appendix A).
const AUTHORITY: usize = 1;

/// A value that is written out.
pub(super) struct Literal<'a> {
    /// Where it is in the block, its length included.
    pub(super) place: Range<usize>,
    bytes: &'a [u8],
    is_huffman: bool,
}

impl Literal<'_> {
    /// What it says; `None` when that is nothing printable.
    pub(super) fn text(&self) -> Option<Vec<u8>> {
        if self.is_huffman { huffman(self.bytes) } else { Some(self.bytes.to_vec()) }
    }
}

/// The value of `:authority`, where the block writes it out and can be read until there.
pub(super) fn authority(block: &[u8]) -> Option<Literal<'_>> {
    let mut at = 0;
    loop {
        // RFC 7541 §6: the first bits say what it is, and how many are left for a number.
        let (number, is_literal);
        (number, at, is_literal) = match *block.get(at)? {
            0x80.. => integer(block, at, 7).map(|(number, at)| (number, at, false))?,
            0x40.. => integer(block, at, 6).map(|(number, at)| (number, at, true))?,
            0x20.. => integer(block, at, 5).map(|(number, at)| (number, at, false))?,
            _ => integer(block, at, 4).map(|(number, at)| (number, at, true))?,
        };
        if !is_literal {
            continue;
        }
        if number == 0 {
            at = string(block, at)?.place.end;
        }
        let value = string(block, at)?;
        if number == AUTHORITY {
            return Some(value);
        }
        at = value.place.end;
    }
}

/// Writes a value as it is.
pub(super) fn write(value: &[u8], block: &mut Vec<u8>) {
    match u8::try_from(value.len()) {
        Ok(len @ ..0x7f) => block.push(len),
        _ => {
            block.push(0x7f);
            let mut rest = value.len() - 0x7f;
            while rest >= 0x80 {
                block.push((rest % 0x80) as u8 | 0x80);
                rest /= 0x80;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(value);
}

/// The string at `at` (RFC 7541 §5.2).
fn string(block: &[u8], at: usize) -> Option<Literal<'_>> {
    let is_huffman = *block.get(at)? & 0x80 != 0;
    let (len, start) = integer(block, at, 7)?;
    let end = start.checked_add(len)?;
    Some(Literal { place: at..end, bytes: block.get(start..end)?, is_huffman })
}

/// The number in the last `bits` bits at `at` and in what follows (RFC 7541 §5.1), and where it
/// ends.
fn integer(block: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1 << bits) - 1;
    let mut number = usize::from(*block.get(at)?) & most;
    if number < most {
        return Some((number, at + 1));
    }
    // Three bytes more: no number in a frame of 16 KiB needs as much.
    for (position, byte) in block.get(at + 1..)?.iter().take(3).enumerate() {
        number += usize::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Some((number, at + 2 + position));
        }
    }
    None
}

/// Decodes a string of printable ASCII (RFC 7541 §5.2); `None` for any other.
fn huffman(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut text, mut code, mut len) = (Vec::new(), 0u32, 0u8);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
        (code, len) = (code << 1 | u32::from(bit), len + 1);
        if let Some(found) = CODES.iter().position(|known| *known == (code, len)) {
            text.push(b' ' + u8::try_from(found).ok()?);
            (code, len) = (0, 0);
        } else if len == CODE_BITS_MAX {
            return None;
        }
    }
    // It is filled up with less than a byte of ones.
    (len < 8 && code == (1 << len) - 1).then_some(text)
}

/// The longest code of a printable character.
const CODE_BITS_MAX: u8 = 19;

/// The codes from the space to the tilde, and how many bits each has (RFC 7541, appendix B).
#[rustfmt::skip]
const CODES: [(u32, u8); 95] = [
    (0x14, 6), (0x3f8, 10), (0x3f9, 10), (0xffa, 12), (0x1ff9, 13), (0x15, 6), (0xf8, 8),
    (0x7fa, 11), (0x3fa, 10), (0x3fb, 10), (0xf9, 8), (0x7fb, 11), (0xfa, 8), (0x16, 6),
    (0x17, 6), (0x18, 6), (0x0, 5), (0x1, 5), (0x2, 5), (0x19, 6), (0x1a, 6), (0x1b, 6),
    (0x1c, 6), (0x1d, 6), (0x1e, 6), (0x1f, 6), (0x5c, 7), (0xfb, 8), (0x7ffc, 15), (0x20, 6),
    (0xffb, 12), (0x3fc, 10), (0x1ffa, 13), (0x21, 6), (0x5d, 7), (0x5e, 7), (0x5f, 7),
    (0x60, 7), (0x61, 7), (0x62, 7), (0x63, 7), (0x64, 7), (0x65, 7), (0x66, 7), (0x67, 7),
    (0x68, 7), (0x69, 7), (0x6a, 7), (0x6b, 7), (0x6c, 7), (0x6d, 7), (0x6e, 7), (0x6f, 7),
    (0x70, 7), (0x71, 7), (0x72, 7), (0xfc, 8), (0x73, 7), (0xfd, 8), (0x1ffb, 13),
    (0x7fff0, 19), (0x1ffc, 13), (0x3ffc, 14), (0x22, 6), (0x7ffd, 15), (0x3, 5), (0x23, 6),
    (0x4, 5), (0x24, 6), (0x5, 5), (0x25, 6), (0x26, 6), (0x27, 6), (0x6, 5), (0x74, 7),
    (0x75, 7), (0x28, 6), (0x29, 6), (0x2a, 6), (0x7, 5), (0x2b, 6), (0x76, 7), (0x2c, 6),
    (0x8, 5), (0x9, 5), (0x2d, 6), (0x77, 7), (0x78, 7), (0x79, 7), (0x7a, 7), (0x7b, 7),
    (0x7ffe, 15), (0x7fc, 11), (0x3ffd, 14), (0x1ffd, 13),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, C.4.1: a request as clients compress it.
    const REQUEST: &[u8] =
        b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\xbf";

    #[test]
    fn an_authority_is_found_among_others() {
        let found = authority(REQUEST).expect("it is there");
        assert_eq!(found.place, 4..17);
        assert_eq!(found.text().as_deref(), Some(&b"www.example.com"[..]));
        // C.3.1: the same as it is; C.3.2: by number, so that it is not found.
        let plain = authority(b"\x82\x86\x84\x41\x0fwww.example.com").expect("it is there");
        assert_eq!(plain.text().as_deref(), Some(&b"www.example.com"[..]));
        assert!(authority(b"\x82\x86\x84\xbe\x58\x08no-cache").is_none());
        // Behind a change of the table's size, and a name and a value that are written out.
        let behind = authority(b"\x3f\xe1\x1f\x40\x01a\x01b\x01\x03c:d").expect("it is there");
        assert_eq!(behind.text().as_deref(), Some(&b"c:d"[..]));
    }

    #[test]
    fn no_code_begins_with_another() {
        for (number, (code, len)) in CODES.iter().enumerate() {
            for (other, longer) in CODES[number + 1..].iter() {
                let bits = *len.min(longer);
                assert_ne!(code >> (len - bits), other >> (longer - bits), "{code:x} {other:x}");
            }
        }
    }

    #[test]
    fn a_block_that_ends_too_soon_has_none() {
        for len in 0..REQUEST.len() - 1 {
            assert!(authority(&REQUEST[..len]).is_none());
        }
    }

    #[test]
    fn a_value_of_any_length_can_be_written_and_read() {
        for len in [0, 1, 126, 127, 128, 254, 255, 300, 16_000] {
            let (value, mut block) = (vec![b'a'; len], vec![0x41]);
            write(&value, &mut block);
            assert_eq!(authority(&block).and_then(|found| found.text()), Some(value));
        }
    }
}
