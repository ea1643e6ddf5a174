//! Two texts side by side, for people.

/// What is longer than this is cut when it is shown; it is compared as a whole.
const LINE_MAX: usize = 400;
/// Equal lines that are shown around those that differ.
const CONTEXT: usize = 2;

/// The lines in which the texts differ, marked `etcd` and `ours`, with a few around them.
pub fn difference(etcd: &str, ours: &str) -> String {
    let (etcd, ours): (Vec<_>, Vec<_>) = (etcd.lines().collect(), ours.lines().collect());
    let head = etcd.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    let rest = etcd[head..].iter().rev().zip(ours[head..].iter().rev());
    let tail = rest.take_while(|(a, b)| a == b).count();

    let mut text = String::new();
    let mut add = |mark: &str, lines: &[&str]| {
        for line in lines {
            text.push_str(&format!("    {mark} {}\n", cut(line)));
        }
    };
    add("     ", &etcd[head.saturating_sub(CONTEXT)..head]);
    add("etcd ", &etcd[head..etcd.len() - tail]);
    add("ours ", &ours[head..ours.len() - tail]);
    let behind = etcd.len() - tail;
    add("     ", &etcd[behind..(behind + CONTEXT).min(etcd.len())]);
    text
}

/// A line that is not too long to read.
pub fn cut(line: &str) -> String {
    if line.len() <= LINE_MAX {
        return line.to_owned();
    }
    let head: String = line.chars().take(LINE_MAX).collect();
    format!("{head}… ({} bytes)", line.len())
}
