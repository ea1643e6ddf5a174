//! Compiles the protos without protoc. Those of etcd are the client's: here they are only read.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=../client/proto");
    let descriptors =
        protox::compile(["kontiki.proto", "admin.proto"], ["proto", "../client/proto"])?;
    let mut build = tonic_prost_build::configure().bytes(".");
    for package in ["mvccpb", "authpb", "etcdserverpb"] {
        build =
            build.extern_path(format!(".{package}"), format!("::kontiki_client::proto::{package}"));
    }
    build.compile_fds(descriptors)?;
    Ok(())
}
