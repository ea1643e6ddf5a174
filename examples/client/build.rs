//! Compiles the protos of etcd without protoc, and keeps what describes them.
use std::path::Path;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["kv", "auth", "rpc", "v3lock", "v3election"].map(|name| format!("{name}.proto"));
    println!("cargo:rerun-if-changed=proto");
    let mut descriptors = protox::compile(files, ["proto"])?;
    let is_server = std::env::var_os("CARGO_FEATURE_SERVER").is_some();
    let build = tonic_prost_build::configure().bytes(".").build_server(is_server);
    build.compile_fds(descriptors.clone())?;

    for file in &mut descriptors.file {
        file.source_code_info = None; // Comments, and where they stood.
    }
    let out = std::env::var_os("OUT_DIR").ok_or("cargo names no directory")?;
    std::fs::write(Path::new(&out).join("descriptors.bin"), descriptors.encode_to_vec())?;
    Ok(())
}
