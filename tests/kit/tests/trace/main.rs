//! Traces: what is written down is read back, right ones pass, and each rule finds its fault.

mod elections;
mod logs;
mod pages;
mod promises;
mod reading;
mod scene;
mod storms;
