//! Pages by HTTP/1.1.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than a node takes to give up.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The status and the text of a page of this machine.
pub(crate) fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    exchange(port, &format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"))
}

/// The status and the answer of a node to a request in JSON.
pub(crate) fn post(port: u16, path: &str, body: &str) -> io::Result<(u16, String)> {
    exchange(port, &request(path, body, "close"))
}

/// A request in JSON as it goes out.
pub(crate) fn request(path: &str, body: &str, connection: &str) -> String {
    let len = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: {connection}\r\n\
         content-length: {len}\r\n\r\n{body}"
    )
}

pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(connection)
}

fn exchange(port: u16, request: &str) -> io::Result<(u16, String)> {
    let mut connection = connect(port)?;
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, answer.clone());
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(invalid)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(invalid)?, body.to_owned()))
}
