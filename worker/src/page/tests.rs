//! Pages, from bytes to what they say.
