//! The `kontiki` binary.
fn main() {}
