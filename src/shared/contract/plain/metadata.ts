/** What a request may bring as metadata: keys, and UTF-16 characters of each key and each value. */
export const maxMetadataKeys = 16;
export const maxMetadataChars = 512;
