//! What clients were told, kept outside of the server.
