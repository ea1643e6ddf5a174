//! The messages and services of the wire, made by the build from `proto/`.
//!
//! One module for each package, beside each other, as generated code expects it.
#![allow(missing_docs, unused_qualifications, clippy::all)]

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

/// The commands that this store replicates, and what operators ask of a node.
pub mod kontiki {
    tonic::include_proto!("kontiki");
}
