//! The configuration file of etcd: YAML, whose names are those of the flags.
//!
//! Only what such a file holds is read: names with texts, numbers, truths, lists of them, and the
//! two groups for TLS.

use saphyr::{LoadableYamlNode, Scalar, Yaml};

/// The groups of etcd's file, and how the flags begin that their names stand for.
const GROUPS: [(&str, &str); 2] =
    [("client-transport-security", ""), ("peer-transport-security", "peer-")];

/// The names and values in `text`, in order; `None` where it holds something else than names.
pub(super) fn pairs(text: &str) -> Result<Option<Vec<(String, String)>>, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let [Yaml::Mapping(mapping)] = &documents[..] else { return Ok(None) };
    let mut pairs = Vec::new();
    for (name, value) in mapping {
        let name = text_of(name).ok_or("a name is no text")?;
        match (value, GROUPS.iter().find(|(group, _)| *group == name)) {
            (Yaml::Mapping(group), Some((_, prefix))) => {
                for (inner, value) in group {
                    let inner = text_of(inner).ok_or("a name is no text")?;
                    add(&mut pairs, format!("{prefix}{inner}"), value)?;
                }
            }
            _ => add(&mut pairs, name, value)?,
        }
    }
    Ok(Some(pairs))
}

fn add(pairs: &mut Vec<(String, String)>, name: String, value: &Yaml<'_>) -> Result<(), String> {
    let value = match value {
        Yaml::Value(Scalar::Null) => return Ok(()),
        Yaml::Sequence(items) => {
            let items: Option<Vec<String>> = items.iter().map(text_of).collect();
            items.map(|items| items.join(","))
        }
        value => text_of(value),
    };
    let value = value.ok_or_else(|| format!("{name} is no text, number or list of them"))?;
    pairs.push((name, value));
    Ok(())
}

fn text_of(value: &Yaml<'_>) -> Option<String> {
    match value {
        Yaml::Value(Scalar::String(text)) => Some(text.to_string()),
        Yaml::Value(Scalar::Integer(number)) => Some(number.to_string()),
        Yaml::Value(Scalar::Boolean(truth)) => Some(truth.to_string()),
        Yaml::Value(Scalar::FloatingPoint(number)) => Some(number.to_string()),
        _ => None,
    }
}
