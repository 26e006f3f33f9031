//! Writes the descriptors of the schema that `dev` serves with, with protox: no protoc binary is
//! needed.

use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["nearside/dev/v1/limits.proto"], ["proto"])?;
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("limits.binpb"), descriptors.encode_to_vec())?;
    Ok(())
}
