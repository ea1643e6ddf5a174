//! The messages and services of the wire: etcd's, which the client shares, and what is Kontiki's
//! own, made by the build from `proto/`.
#![allow(missing_docs, unused_qualifications, clippy::all)]

pub use kontiki_client::proto::{
    DESCRIPTORS, authpb, etcdserverpb, mvccpb, v3electionpb, v3lockpb,
};

/// The commands that this store replicates, and what operators ask of a node.
pub mod kontiki {
    tonic::include_proto!("kontiki");
}
