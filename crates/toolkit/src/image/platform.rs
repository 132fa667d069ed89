//! [`Platform`] and [`Libc`]: for which machines an image is.

use std::fmt;
use std::str::FromStr;

/// An operating system and an architecture, in the words of OCI images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// `linux/amd64`.
    Amd64,
    /// `linux/arm64`.
    Arm64,
}

/// The C library of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Libc {
    /// A static program, which needs no files
    Musl,
    /// The C library of this machine, which is copied to the image
    Glibc,
}

impl Platform {
    /// That of this machine.
    pub(crate) fn of_this_machine() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// The architecture in the words of OCI images.
    pub(crate) fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The architecture in the words of Rust.
    pub(crate) fn rust_architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The number of the architecture in ELF files.
    pub(crate) fn elf_machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture())
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "linux/amd64" => Ok(Self::Amd64),
            "linux/arm64" => Ok(Self::Arm64),
            _ => Err("the platforms are linux/amd64 and linux/arm64".to_owned()),
        }
    }
}
