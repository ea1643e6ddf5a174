//! Messages as JSON: fields by the names of the protos, bytes in base64, 64-bit numbers as text,
//! enums by name, and nothing where there is zero. What comes in may say it in other ways too, and
//! what is unknown in it is ignored.

use bytes::{Buf, BytesMut};
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::error::Category;

const OUT: SerializeOptions = SerializeOptions::new()
    .use_proto_field_name(true)
    .stringify_64_bit_integers(true)
    .skip_default_fields(true);

/// What a first value looks like from its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// It ends here.
    Whole(usize),
    /// More must come first.
    Open,
    /// There is nothing but space.
    Nothing,
    /// It is no JSON.
    Broken(String),
}

/// Where the first value in `text` ends.
pub(super) fn split(text: &[u8]) -> Split {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    match values.next() {
        None => Split::Nothing,
        Some(Ok(_)) => Split::Whole(values.byte_offset()),
        Some(Err(error)) if error.classify() == Category::Eof => Split::Open,
        Some(Err(error)) => Split::Broken(error.to_string()),
    }
}

/// The encoded message that the first value of `text` says, and the text without it. Nothing at
/// all, or `null`, is a message without fields.
pub(super) fn take_message(
    text: &mut BytesMut,
    descriptor: &MessageDescriptor,
) -> Result<Vec<u8>, String> {
    let len = match split(text) {
        Split::Whole(len) => len,
        Split::Nothing => return Ok(Vec::new()),
        Split::Open => return Err("unexpected EOF".to_owned()),
        Split::Broken(reason) => return Err(reason),
    };
    let read = parse(&text[..len], descriptor);
    text.advance(len);
    read
}

fn parse(text: &[u8], descriptor: &MessageDescriptor) -> Result<Vec<u8>, String> {
    let mut value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if value.is_null() {
        return Ok(Vec::new());
    }
    forget_unknown(&mut value, descriptor);
    let message = DynamicMessage::deserialize(descriptor.clone(), value);
    message.map(|message| message.encode_to_vec()).map_err(|error| error.to_string())
}

/// Takes out the fields that a message does not have. Only they are ignored: the name of an enum's
/// value that does not exist must not pass for its default.
fn forget_unknown(value: &mut Value, descriptor: &MessageDescriptor) {
    let Value::Object(fields) = value else { return };
    fields.retain(|name, value| {
        let by_name = || descriptor.get_field_by_name(name);
        let Some(field) = descriptor.get_field_by_json_name(name).or_else(by_name) else {
            return false;
        };
        if let Kind::Message(inner) = field.kind() {
            match value {
                Value::Array(values) => {
                    values.iter_mut().for_each(|value| forget_unknown(value, &inner));
                }
                value => forget_unknown(value, &inner),
            }
        }
        true
    });
}

/// An encoded message as JSON, behind what is in `text` already.
pub(super) fn write(
    message: impl Buf,
    descriptor: &MessageDescriptor,
    text: &mut Vec<u8>,
) -> Result<(), String> {
    let message = DynamicMessage::decode(descriptor.clone(), message);
    let message = message.map_err(|error| error.to_string())?;
    let mut serializer = serde_json::Serializer::new(text);
    message.serialize_with_options(&mut serializer, &OUT).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kontiki_client::proto::DESCRIPTORS;
    use kontiki_client::proto::etcdserverpb::{PutRequest, RangeRequest, RangeResponse};
    use kontiki_client::proto::mvccpb::KeyValue;
    use prost_reflect::DescriptorPool;

    fn descriptor(name: &str) -> MessageDescriptor {
        let pool = DescriptorPool::decode(DESCRIPTORS).expect("descriptors");
        pool.get_message_by_name(name).expect("a message")
    }

    fn read<M: Message + Default>(name: &str, text: &str) -> Result<M, String> {
        let message = take_message(&mut text.into(), &descriptor(name))?;
        Ok(M::decode(&message[..]).expect("a message of that kind"))
    }

    #[test]
    fn a_request_is_read_in_every_way_it_may_be_written() {
        let expected = RangeRequest {
            key: "foo".into(),
            range_end: "g".into(),
            limit: 9_007_199_254_740_993,
            sort_order: 2,
            sort_target: 3,
            keys_only: true,
            ..RangeRequest::default()
        };
        for text in [
            r#"{"key":"Zm9v","range_end":"Zw==","limit":"9007199254740993","sort_order":"DESCEND",
                "sort_target":"MOD","keys_only":true}"#,
            r#"{"key":"Zm9v","rangeEnd":"Zw==","limit":9007199254740993,"sortOrder":2,
                "sortTarget":3,"keysOnly":true,"unknown":[{}],"revision":null}"#,
        ] {
            assert_eq!(read("etcdserverpb.RangeRequest", text), Ok(expected.clone()), "{text}");
        }
        for nothing in ["", " ", "{}", "null"] {
            assert_eq!(read("etcdserverpb.RangeRequest", nothing), Ok(RangeRequest::default()));
        }
        let put = PutRequest { key: "a".into(), ..PutRequest::default() };
        assert_eq!(
            read("etcdserverpb.PutRequest", r#"{"key":"YQ=="} and what is behind"#),
            Ok(put)
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            r#"{"key":"#,
            "[]",
            "7",
            r#"{"key":"!!"}"#,
            r#"{"limit":"x"}"#,
            r#"{"limit":1.5}"#,
            r#"{"limit":"9223372036854775808"}"#,
            r#"{"sort_order":"WRONG"}"#,
            r#"{"sort_order":"WRONG","unknown":1}"#,
            "garbage",
        ] {
            let read = read::<RangeRequest>("etcdserverpb.RangeRequest", text);
            assert!(read.is_err(), "{text}: {read:?}");
        }
    }

    #[test]
    fn an_answer_is_written_as_etcd_writes_it() {
        let kv = KeyValue {
            key: "foo".into(),
            mod_revision: i64::MAX,
            value: vec![0, 255].into(),
            ..KeyValue::default()
        };
        let answer = RangeResponse { kvs: vec![kv], count: 1, ..RangeResponse::default() };
        let mut text = Vec::new();
        let descriptor = descriptor("etcdserverpb.RangeResponse");
        write(&answer.encode_to_vec()[..], &descriptor, &mut text).expect("it is written");
        assert_eq!(
            String::from_utf8_lossy(&text),
            r#"{"kvs":[{"key":"Zm9v","mod_revision":"9223372036854775807","value":"AP8="}],"count":"1"}"#
        );
    }

    #[test]
    fn values_are_told_apart_before_all_of_them_have_come() {
        for (text, expected) in [
            ("", Split::Nothing),
            (" \n", Split::Nothing),
            (r#"{"a":"#, Split::Open),
            (r#"{"a":"\"}"#, Split::Open),
            (r#"{"a":1}"#, Split::Whole(7)),
            (r#" {"a":{}} {"#, Split::Whole(9)),
            (r#"{"a":1}{"b":2}"#, Split::Whole(7)),
        ] {
            assert_eq!(split(text.as_bytes()), expected, "{text}");
        }
        assert!(matches!(split(b"{bad"), Split::Broken(_)));
    }
}
