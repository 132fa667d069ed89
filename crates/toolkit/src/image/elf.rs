//! [`Elf`]: the architecture of a program, and the dynamic loader that it needs.

use anyhow::{Result, bail};

const MAGIC: &[u8] = b"\x7fELF";
/// The class of 64-bit files, and the encoding of little-endian ones.
const CLASS_64_LITTLE_ENDIAN: [u8; 2] = [2, 1];
/// The type of the program header that names the loader.
const INTERPRETER: u32 = 3;

/// See the [module documentation](self).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The number of the architecture.
    pub(crate) machine: u16,
    /// The path of the loader; none for a static program.
    pub(crate) interpreter: Option<String>,
}

impl Elf {
    /// Reads the headers of a program.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(MAGIC) {
            bail!("it is not a program for Linux (an ELF file)");
        }
        if bytes.get(4..6) != Some(&CLASS_64_LITTLE_ENDIAN) {
            bail!("it is not a program for a 64-bit machine");
        }
        Self::read_headers(bytes).ok_or_else(|| anyhow::anyhow!("its headers are damaged"))
    }

    fn read_headers(bytes: &[u8]) -> Option<Self> {
        let machine = u16::from_le_bytes(field(bytes, 18)?);
        let table = u64::from_le_bytes(field(bytes, 32)?);
        let size = u16::from_le_bytes(field(bytes, 54)?);
        let count = u16::from_le_bytes(field(bytes, 56)?);
        for number in 0..count {
            let offset = table.checked_add(u64::from(number) * u64::from(size))?;
            let header = bytes.get(usize::try_from(offset).ok()?..)?;
            if u32::from_le_bytes(field(header, 0)?) != INTERPRETER {
                continue;
            }
            let start = usize::try_from(u64::from_le_bytes(field(header, 8)?)).ok()?;
            let length = usize::try_from(u64::from_le_bytes(field(header, 32)?)).ok()?;
            let path = bytes.get(start..start.checked_add(length)?)?;
            let path = String::from_utf8(path.to_vec()).ok()?;
            let interpreter = path.trim_end_matches('\0').to_owned();
            return Some(Self { machine, interpreter: Some(interpreter) });
        }
        Some(Self { machine, interpreter: None })
    }
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_an_error_wherever_it_ends() {
        assert!(Elf::read(b"#!/bin/sh").unwrap_err().to_string().contains("ELF"));
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in 0..64 {
            assert!(Elf::read(&program[..length]).is_err(), "{length}");
        }
        let mut offset = program[..64].to_vec();
        offset[32..40].fill(0xff);
        assert!(Elf::read(&offset).is_err());
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn a_dynamic_program_names_its_loader() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let interpreter = Elf::read(&program).unwrap().interpreter.unwrap();
        assert!(interpreter.contains("/ld-linux"), "{interpreter}");
    }
}
