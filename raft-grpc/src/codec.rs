//! The codec of the peer streams: protobuf, with buffers grown once per message, and with what
//! cannot be decoded answered as the sender's fault.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes `T`, decodes `U`.
pub(crate) struct StreamCodec<T, U>(PhantomData<(T, U)>);

pub(crate) struct StreamEncoder<T>(PhantomData<T>);

pub(crate) struct StreamDecoder<U>(PhantomData<U>);

impl<T, U> Default for StreamCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for StreamCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = StreamEncoder<T>;
    type Decoder = StreamDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        StreamEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        StreamDecoder(PhantomData)
    }
}

impl<T: Message> Encoder for StreamEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.encoded_len());
        item.encode_raw(buffer);
        Ok(())
    }
}

impl<U: Message + Default> Decoder for StreamDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // `bytes` fields share the receive buffer: nothing is copied here.
        U::decode(buffer).map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
