//! Plain HTTP/1.1 requests, from the bytes that were read to the bytes that are written, without hyper.

pub mod hits;
pub mod plain;
pub mod write;

#[cfg(test)]
mod tests;
