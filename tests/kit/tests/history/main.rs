//! The checker of client histories, on histories that are known to be right and known to be wrong.

mod brute;
mod lists;
mod long;
mod property;
mod registers;
mod script;
