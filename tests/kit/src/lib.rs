//! Kontiki.
