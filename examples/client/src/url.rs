//! `http://host:port`, the only URLs that Kontiki listens on or dials.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// `http://host:port`. The host is not empty; an IPv6 address is kept without its brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpUrl {
    host: String,
    port: u16,
}

/// Why a URL is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// TLS is not there yet.
    #[error("{0}: https is not supported yet; use http://")]
    Https(String),
    /// Neither `http` nor anything that we know.
    #[error("{0}: write it as http://HOST:PORT")]
    Scheme(String),
    /// No host.
    #[error("{0}: the host is missing; write it as http://HOST:PORT")]
    Host(String),
    /// No port, or no number, or zero.
    #[error("{0}: the port is missing or not between 1 and 65535; write it as http://HOST:PORT")]
    Port(String),
    /// Something behind the port.
    #[error("{0}: leave out what follows the port")]
    Path(String),
}

impl HttpUrl {
    /// The URL of `host`, a name or an address without brackets.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// `http://localhost:port`.
    pub fn localhost(port: u16) -> Self {
        Self::new("localhost", port)
    }

    /// The host: a name or an address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to listen, or `None` when the host is a name: a name may mean several addresses.
    pub fn bind_address(&self) -> Option<SocketAddr> {
        let host = match self.host.as_str() {
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.parse().ok()?,
        };
        Some(SocketAddr::new(host, self.port))
    }

    /// Whether it means every address of a machine, which one can listen on but not dial.
    pub fn is_everywhere(&self) -> bool {
        self.host.parse().is_ok_and(|host: IpAddr| host.is_unspecified())
    }

    /// `host:port`, as a socket wants it.
    pub fn authority(&self) -> String {
        match self.host.parse::<Ipv6Addr>() {
            Ok(host) => format!("[{host}]:{}", self.port),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

impl FromStr for HttpUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let refuse = |why: fn(String) -> UrlError| Err(why(text.to_owned()));
        let Some((scheme, rest)) = text.split_once("://") else {
            return refuse(UrlError::Scheme);
        };
        match scheme {
            "http" => {}
            "https" => return refuse(UrlError::Https),
            _ => return refuse(UrlError::Scheme),
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return refuse(UrlError::Path);
        }
        let Some((host, port)) = rest.rsplit_once(':') else {
            return refuse(if rest.is_empty() { UrlError::Host } else { UrlError::Port });
        };
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) if host.parse::<Ipv6Addr>().is_ok() => host,
            None if !host.contains([':', '[', ']']) && !host.is_empty() => host,
            _ => return refuse(UrlError::Host),
        };
        if host.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return refuse(UrlError::Host);
        }
        match port.parse() {
            Ok(number @ 1..) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Self::new(host.to_ascii_lowercase(), number))
            }
            _ => refuse(UrlError::Port),
        }
    }
}

/// Where clients are served, as users write it: the scheme may be left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientUrl(pub HttpUrl);

impl FromStr for ClientUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.contains("://") { text.parse() } else { format!("http://{text}").parse() }.map(Self)
    }
}

/// As it was meant to be dialled, without the scheme.
impl fmt::Display for ClientUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_an_endpoint_may_be_left_out() {
        let bare: ClientUrl = "127.0.0.1:2379".parse().expect("valid");
        assert_eq!("http://127.0.0.1:2379".parse(), Ok(bare.clone()));
        assert_eq!(bare.to_string(), "127.0.0.1:2379");
        assert!("https://127.0.0.1:2379".parse::<ClientUrl>().is_err());
        assert!("127.0.0.1".parse::<ClientUrl>().is_err());
    }

    #[test]
    fn what_is_accepted_reads_back() {
        for (text, host, port, shown) in [
            ("http://localhost:2379", "localhost", 2379, "http://localhost:2379"),
            ("http://10.0.0.1:1", "10.0.0.1", 1, "http://10.0.0.1:1"),
            ("http://[::1]:65535", "::1", 65535, "http://[::1]:65535"),
            ("http://Node-1.Example:80/", "node-1.example", 80, "http://node-1.example:80"),
        ] {
            let url: HttpUrl = text.parse().expect(text);
            assert_eq!((url.host(), url.port()), (host, port), "{text}");
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse(), Ok(url));
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        type Why = fn(String) -> UrlError;
        let table: [(&str, Why); 15] = [
            ("localhost:2379", UrlError::Scheme),
            ("", UrlError::Scheme),
            ("unix://socket:1", UrlError::Scheme),
            ("https://localhost:2379", UrlError::Https),
            ("http://", UrlError::Host),
            ("http://:2379", UrlError::Host),
            ("http://::1:2379", UrlError::Host),
            ("http://[::1:2379", UrlError::Host),
            ("http://[a]:2379", UrlError::Host),
            ("http://a b:2379", UrlError::Host),
            ("http://localhost", UrlError::Port),
            ("http://localhost:0", UrlError::Port),
            ("http://localhost:+80", UrlError::Port),
            ("http://localhost:65536", UrlError::Port),
            ("http://localhost:2379/path", UrlError::Path),
        ];
        for (text, why) in table {
            assert_eq!(text.parse::<HttpUrl>(), Err(why(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn only_addresses_and_localhost_can_be_bound() {
        let bind = |text: &str| text.parse::<HttpUrl>().ok().and_then(|url| url.bind_address());
        assert_eq!(bind("http://localhost:7"), Some(([127, 0, 0, 1], 7).into()));
        assert_eq!(bind("http://[::]:7"), Some((Ipv6Addr::UNSPECIFIED, 7).into()));
        assert_eq!(bind("http://node1:7"), None);
    }
}
