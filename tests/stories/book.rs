//! A story is text: prose after `#`, commands, and after each command what it must bring about,
//! line by line after `>`. Compared exactly; `KONTIKI_BLESS=1` writes what came out instead.

use std::fmt::Write;
use std::fs;
use std::sync::Mutex;

use crate::teller::Teller;

/// A test that is a story. The name is its title.
#[macro_export]
macro_rules! story {
    ($(#[$attribute:meta])* $name:ident, $text:literal) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            $crate::book::tell(file!(), $text);
        }
    };
}

/// Two stories of one file are not rewritten at the same time.
static PEN: Mutex<()> = Mutex::new(());

/// Tells the story, and compares it with what it should be.
pub fn tell(file: &str, text: &str) {
    let told = perform(text);
    if told == text {
        return;
    }
    if std::env::var_os("KONTIKI_BLESS").is_some() {
        let _pen = PEN.lock().unwrap_or_else(|broken| broken.into_inner());
        let source = fs::read_to_string(file).expect("the story's source is here");
        assert_eq!(source.matches(text).count(), 1, "a story stands once in {file}");
        fs::write(file, source.replace(text, &told)).expect("the story's source can be written");
        return;
    }
    panic!(
        "the story went otherwise (- expected, + happened):\n{}\n\
         If this is right, rewrite it by KONTIKI_BLESS=1 cargo test --test stories",
        difference(text, &told)
    );
}

/// The text as it would be, were it right.
fn perform(text: &str) -> String {
    let mut teller = Teller::default();
    let mut told = String::new();
    for line in text.split_inclusive('\n') {
        let command = line.trim();
        if command.starts_with('>') {
            continue; // What was expected; what happened is written below the command.
        }
        told.push_str(line);
        if command.is_empty() || command.starts_with('#') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        println!("{command}"); // Shown where a command cannot be done.
        for output in teller.perform(command) {
            println!("> {output}");
            writeln!(told, "{indent}> {output}").expect("a string takes everything");
        }
    }
    told
}

/// The lines that differ, with those around them: enough for texts that are nearly equal.
fn difference(expected: &str, happened: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), happened.lines().collect());
    // The longest common subsequence, by the textbook.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let (sign, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        writeln!(text, "{sign} {}", line.trim_start()).expect("a string takes everything");
    }
    text
}
