//! The messages and services of etcd's wire, made by the build from `proto/`: one module for each
//! package, beside each other, as generated code expects it. What a server implements is there
//! with the feature `server`.
#![allow(missing_docs, unused_qualifications, clippy::all)]

/// What describes all of it: an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Keys, values and events.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// Users, roles and permissions.
pub mod authpb {
    tonic::include_proto!("authpb");
}

/// The etcd v3 services.
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

/// The lock service.
pub mod v3lockpb {
    tonic::include_proto!("v3lockpb");
}

/// The election service.
pub mod v3electionpb {
    tonic::include_proto!("v3electionpb");
}
