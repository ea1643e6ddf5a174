//! Compiles the protobuf files in pure Rust, so that building needs no `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["proto/raft.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::StreamCodec")
        .compile_fds(files)?;
    Ok(())
}
