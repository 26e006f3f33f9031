//! The services, by their commands.

/// Which of the services a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRole {
    Catalogue,
    Views,
    Region,
    /// Whatever the file names is wanted, and nothing more.
    Setup,
}

impl ServiceRole {
    /// Its command.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Catalogue => "catalogue",
            Self::Views => "views",
            Self::Region => "region",
            Self::Setup => "setup",
        }
    }
}
