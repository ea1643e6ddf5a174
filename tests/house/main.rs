//! The house keeps its shape: which crate may know which, and what each room never touches.
//! A wrong arrow, or a clock in the core, fails the build here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Our crates, and the others of ours that each may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("raft-core", &[]),
    ("raft-driver", &["raft-core"]),
    ("raft-storage", &["raft-core"]),
    ("raft-grpc", &["raft-core"]),
    ("kontiki", &["raft-core", "raft-driver", "raft-storage", "raft-grpc"]),
    ("raft-testkit", &["raft-core", "raft-driver", "raft-storage"]),
    ("raft-benchkit", &["raft-core"]),
    ("kontiki-client", &[]),
    ("kontiki-kv", &["kontiki", "kontiki-client", "raft-testkit"]),
    ("kontiki-election", &["kontiki", "kontiki-client", "kontiki-kv"]),
];

/// What only tests and benches of a crate may depend on beside that.
const TEST_ARROWS: &[(&str, &[&str])] = &[
    ("kontiki", &["raft-testkit", "raft-benchkit"]),
    ("raft-grpc", &["raft-testkit"]),
    ("kontiki-client", &["kontiki-client"]),
];

/// Crates of others that a crate of ours must never depend on.
const NEVER: &[(&str, &[&str])] = &[
    ("raft-core", &["tokio", "prost", "tonic", "getrandom", "tracing"]),
    ("raft-driver", &["tokio", "prost", "tonic", "rand"]),
    ("raft-storage", &["tokio", "prost", "tonic"]),
    ("raft-testkit", &["tokio", "tonic", "getrandom"]),
    ("kontiki", &["prost", "tonic"]),
];

/// Words that must not stand in the sources of a room.
const WORDS: &[(&str, &[&str])] = &[
    ("raft-core/src", &["std::time", "std::thread", "std::fs", "std::net", "rand::random"]),
    ("raft-driver/src", &["SystemTime", "std::thread", "std::fs", "std::net", "Instant::now"]),
    ("raft-storage/src", &["tokio", "std::net", "SystemTime"]),
    ("raft-grpc/src", &["std::fs"]),
    ("src", &["prost::", "tonic::", "std::fs", "std::net"]),
    ("tests/kit/src", &["SystemTime", "Instant::now", "std::net", "rand::random", "rand::rng"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> Metadata {
    let manifest = root().join("Cargo.toml");
    let mut command = MetadataCommand::new();
    command.manifest_path(manifest).no_deps().other_options(vec!["--offline".into()]);
    command.exec().expect("cargo describes the workspace")
}

#[test]
fn arrows_point_down_only() {
    let metadata = metadata();
    let ours: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let for_tests: BTreeMap<&str, &[&str]> = TEST_ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(allowed) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the table of the house"));
            continue;
        };
        for dependency in &package.dependencies {
            let target = dependency.name.as_str();
            let test = dependency.kind == DependencyKind::Development
                && for_tests.get(name).is_some_and(|targets| targets.contains(&target));
            if ours.contains(target) && !allowed.contains(&target) && !test {
                wrong.push(format!("{name} must not depend on {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(metadata.packages.len(), ARROWS.len(), "every crate of the table exists");
}

#[test]
fn rooms_are_free_of_what_they_never_touch() {
    let never: BTreeMap<&str, &[&str]> = NEVER.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in &metadata().packages {
        for dependency in &package.dependencies {
            let (name, target) = (package.name.as_str(), dependency.name.as_str());
            let shipped = dependency.kind == DependencyKind::Normal;
            if shipped && never.get(name).is_some_and(|never| never.contains(&target)) {
                wrong.push(format!("{name} never depends on {target}"));
            }
        }
    }
    for (room, words) in WORDS {
        for file in sources(&root().join(room)) {
            let text = fs::read_to_string(&file).expect("a source file is text");
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for word in words.iter().filter(|word| code.contains(**word)) {
                    wrong.push(format!("{}:{}: {word}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_follows_the_lints_that_forbid_unsafe_code() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is text");
    assert!(manifest.contains("unsafe_code = \"forbid\""), "the workspace forbids unsafe code");
    for package in &metadata().packages {
        if package.name.as_str() == "raft-benchkit" {
            continue; // Counting allocations takes an allocator, and that takes unsafe code.
        }
        let text = fs::read_to_string(&package.manifest_path).expect("a manifest is text");
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{} follows the workspace's lints",
            package.name
        );
    }
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let path = entry.expect("a directory lists its entries").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Licences that ask for no more than to be named.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "Unlicense",
    "BSL-1.0",
    "CC0-1.0",
    "MIT-0",
];

/// The platform that this is built on: only its crates are sure to be here without a network.
fn platform() -> String {
    let version = Command::new("rustc").arg("-vV").output().expect("there is a compiler");
    let version = String::from_utf8(version.stdout).expect("it speaks UTF-8");
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("it says where it runs").to_owned()
}

#[test]
fn every_dependency_may_be_shipped_under_our_licence() {
    let mut command = MetadataCommand::new();
    let options = vec!["--offline".into(), "--filter-platform".into(), platform()];
    command.manifest_path(root().join("Cargo.toml")).other_options(options);
    let metadata = command.exec().expect("cargo describes all packages");
    let may_be_shipped = |expression: &str| {
        // "A OR B" needs one of them, "A AND B" all; a slash is an old OR.
        let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
        expression
            .split(" AND ")
            .all(|all| all.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
    };
    let wrong: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| !package.license.as_deref().is_some_and(may_be_shipped))
        .map(|package| format!("{}: {:?}", package.name, package.license))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
