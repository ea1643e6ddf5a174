//! Whose connections there are on this machine. The kernel is asked as rarely as can be: its table
//! has all sockets of the machine, and takes long to read.

use std::collections::BTreeMap;
use std::io::{self, Read};

use tokio::time::Instant;

use super::Number;

/// What the kernel said last.
#[derive(Default)]
pub(super) struct Owners {
    asked: Option<Instant>,
    /// The socket of each connection, by the port that has dialled and the one that was dialled.
    sockets: BTreeMap<(u16, u16), String>,
    /// Whose they are.
    owners: BTreeMap<String, Number>,
}

impl Owners {
    /// Who has dialled, on a connection that began then. Nobody, if he is gone.
    pub(super) async fn find(
        &mut self,
        ports: (u16, u16),
        began: Instant,
        processes: BTreeMap<Number, u32>,
    ) -> Option<Number> {
        if self.asked.is_none_or(|asked| asked <= began) {
            let asking = tokio::task::spawn_blocking(move || Self::ask(&processes));
            *self = asking.await.ok()?;
        }
        self.owners.get(self.sockets.get(&ports)?).copied()
    }

    fn ask(processes: &BTreeMap<Number, u32>) -> Self {
        let asked = Some(Instant::now());
        let table = read_table("/proc/net/tcp").unwrap_or_default();
        let sockets = table.lines().filter_map(line).collect();
        let mut owners = BTreeMap::new();
        for (number, process) in processes {
            let Ok(files) = std::fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
            let socket = |link: std::path::PathBuf| {
                let text = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
                Some((text.to_owned(), *number))
            };
            owners.extend(links.filter_map(socket));
        }
        Self { asked, sockets, owners }
    }
}

/// A table of the kernel, in as few pieces as it gives: it may change between two of them.
fn read_table(path: &str) -> io::Result<String> {
    const TABLE_BYTES: usize = 256 << 10;
    let mut table = String::with_capacity(TABLE_BYTES);
    std::fs::File::open(path)?.read_to_string(&mut table)?;
    Ok(table)
}

/// The ports and the socket in a line of `/proc/net/tcp`.
fn line(line: &str) -> Option<((u16, u16), String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |field: &str| u16::from_str_radix(field.rsplit_once(':')?.1, 16).ok();
    let ports = (port(fields.get(1)?)?, port(fields.get(2)?)?);
    Some((ports, (*fields.get(9)?).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_read() {
        let text = "   4: 0100007F:9C40 0100007F:2712 01 00000000:00000000 02:000004D2 00000000 \
                    0        0 123456 2 0000000000000000 20 4 30 10 -1";
        assert_eq!(line(text), Some(((40_000, 10_002), "123456".to_owned())));
        assert_eq!(line("  sl  local_address rem_address   st"), None);
    }
}
