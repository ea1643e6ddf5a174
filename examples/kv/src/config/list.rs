//! Lists as flags and files write them: separated by commas, or an array in TOML.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{HttpUrl, UrlError};

/// URLs: `http://a:1,http://b:2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct UrlList(pub Vec<HttpUrl>);

/// Members, each with a URL of its peers' side: `n1=http://a:1,n2=http://b:2`. A member that has
/// several stands there as often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct MemberList(pub Vec<(String, HttpUrl)>);

/// Words: `stderr,/var/log/kontiki.log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Text", into = "String")]
pub struct WordList(pub Vec<String>);

/// Why a list of members is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberListError {
    /// No name before a URL.
    #[error("{0:?}: write each member as NAME=http://HOST:PORT")]
    Form(String),
    /// The URL of a member.
    #[error("{name}={error}")]
    Url {
        /// The member.
        name: String,
        /// What is wrong with its URL.
        error: UrlError,
    },
}

impl MemberList {
    /// The cluster of one node.
    pub(super) fn alone(name: &str, peer_urls: &[HttpUrl]) -> Self {
        Self(peer_urls.iter().map(|url| (name.to_owned(), url.clone())).collect())
    }
}

impl FromStr for UrlList {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        items(text).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for WordList {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(items(text).map(str::to_owned).collect()))
    }
}

impl FromStr for MemberList {
    type Err = MemberListError;

    fn from_str(text: &str) -> Result<Self, MemberListError> {
        let member = |item: &str| match item.split_once('=') {
            Some((name, url)) if !name.is_empty() => match url.parse() {
                Ok(url) => Ok((name.to_owned(), url)),
                Err(error) => Err(MemberListError::Url { name: name.to_owned(), error }),
            },
            _ => Err(MemberListError::Form(item.to_owned())),
        };
        items(text).map(member).collect::<Result<_, _>>().map(Self)
    }
}

/// The items of a list. An empty list has none; an empty item stays, to be refused.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(move |_| !text.trim().is_empty())
}

impl fmt::Display for UrlList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.0.iter().map(HttpUrl::to_string).collect();
        f.write_str(&urls.join(","))
    }
}

impl fmt::Display for MemberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> =
            self.0.iter().map(|(name, url)| format!("{name}={url}")).collect();
        f.write_str(&members.join(","))
    }
}

impl fmt::Display for WordList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// One text, or an array of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, or an array of texts")]
enum Text {
    One(String),
    Many(Vec<String>),
}

impl Text {
    fn parse<T: FromStr>(self) -> Result<T, T::Err> {
        match self {
            Self::One(text) => text.parse(),
            Self::Many(texts) => texts.join(",").parse(),
        }
    }
}

impl TryFrom<Text> for UrlList {
    type Error = UrlError;

    fn try_from(text: Text) -> Result<Self, UrlError> {
        text.parse()
    }
}

impl From<Text> for WordList {
    fn from(text: Text) -> Self {
        let Ok(list) = text.parse();
        list
    }
}

impl TryFrom<Text> for MemberList {
    type Error = MemberListError;

    fn try_from(text: Text) -> Result<Self, MemberListError> {
        text.parse()
    }
}

impl From<UrlList> for String {
    fn from(list: UrlList) -> Self {
        list.to_string()
    }
}

impl From<WordList> for String {
    fn from(list: WordList) -> Self {
        list.to_string()
    }
}

impl From<MemberList> for String {
    fn from(list: MemberList) -> Self {
        list.to_string()
    }
}
