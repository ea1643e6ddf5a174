//! Where a peer is: `host:port`, with or without a scheme; or several of these.

use tonic::transport::Uri;

/// Parses the addresses of a peer, separated by commas: at least one, in order.
pub(crate) fn parse_all(addresses: &str, encrypted: bool) -> Result<Vec<Uri>, String> {
    addresses.split(',').map(|address| parse(address.trim(), encrypted)).collect()
}

/// As [`parse_all`] reads them.
pub(crate) fn list(addresses: &[Uri]) -> String {
    let all: Vec<_> = addresses.iter().map(Uri::to_string).collect();
    all.join(",")
}

/// Parses one address of a peer; the error says what is wrong with it.
fn parse(address: &str, encrypted: bool) -> Result<Uri, String> {
    let (scheme, authority) = match address.split_once("://") {
        Some((scheme, rest)) => (scheme, rest.trim_end_matches('/')),
        None if encrypted => ("https", address),
        None => ("http", address),
    };
    match (scheme, encrypted) {
        ("http", false) | ("https", true) => {}
        ("http", true) => return Err("but this transport is encrypted".to_owned()),
        ("https", false) => return Err("but no certificates are configured".to_owned()),
        _ => return Err(format!("whose scheme {scheme:?} is not http or https")),
    }
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build();
    let uri = uri.map_err(|error| format!("which is not an address ({error})"))?;
    match uri.port_u16() {
        Some(1..) if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        Some(1..) => Err("which has no host".to_owned()),
        Some(0) | None => Err("which has no port".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_a_scheme() {
        for address in ["10.0.0.1:2380", "http://10.0.0.1:2380", "http://10.0.0.1:2380/"] {
            assert_eq!(parse(address, false), Ok(Uri::from_static("http://10.0.0.1:2380/")));
        }
        assert_eq!(parse("[::1]:80", false), Ok(Uri::from_static("http://[::1]:80/")));
        assert_eq!(parse("node:2380", true), Ok(Uri::from_static("https://node:2380/")));
    }

    #[test]
    fn several_addresses_keep_their_order() {
        let two = parse_all("b:2, http://a:1/", false).expect("addresses");
        assert_eq!(list(&two), "http://b:2/,http://a:1/");
        assert_eq!(parse_all(&list(&two), false), Ok(two));
        for bad in ["", "a:1,", ",", "a:1,b"] {
            assert!(parse_all(bad, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (address, encrypted, reason) in [
            ("", false, "not an address"),
            ("node", false, "no port"),
            ("node:0", false, "no port"),
            ("node:99999", false, "no port"),
            (":2380", false, "no host"),
            ("a b:2380", false, "not an address"),
            ("node:2380/path", false, "not an address"),
            ("https://node:2380", false, "no certificates"),
            ("http://node:2380", true, "encrypted"),
            ("unix:///run/x", false, "scheme"),
        ] {
            let error = parse(address, encrypted).expect_err(address);
            assert!(error.contains(reason), "{address}: {error}");
        }
    }
}
