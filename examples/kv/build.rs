//! Compiles the protos without protoc.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["kv", "auth", "rpc", "v3lock", "v3election", "kontiki", "admin"]
        .map(|name| format!("proto/{name}.proto"));
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
