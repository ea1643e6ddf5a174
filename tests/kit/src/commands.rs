//! What the command line can do, one file each.

pub(crate) mod bugs;
pub(crate) mod check;
pub(crate) mod cuts;
pub(crate) mod diagram;
pub(crate) mod model;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod storm;
