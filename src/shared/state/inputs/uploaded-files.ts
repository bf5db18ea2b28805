/** An uploaded file, as far as an input needs it. */
export interface UploadedFile {
  readonly filename: string;
  readonly bytes: number;
  /** As its giver named it; `application/octet-stream` says nothing. */
  readonly media_type: string;
}

/** The files that tenants have uploaded. */
export interface UploadedFiles {
  /** Undefined: the tenant has no such file, or it is past its time. */
  info(tenant: string, id: string): Promise<UploadedFile | undefined>;
  /** The bytes from `from` up to, without, `to`. */
  read(tenant: string, id: string, from?: number, to?: number): AsyncIterable<Uint8Array>;
}

/** Where no files can be uploaded. */
export const noFiles: UploadedFiles = {
  info: async () => undefined,
  async *read() {},
};
