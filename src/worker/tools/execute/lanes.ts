/** Lets work through side by side, at most `width` at a time, and what is exclusive alone; in order of arrival. */
export class Turnstile {
  readonly #width: number;
  readonly #waiting: { readonly exclusive: boolean; readonly enter: () => void }[] = [];
  #inside = 0;
  #exclusive = false;

  constructor(width: number) {
    this.#width = width;
  }

  async pass<T>(exclusive: boolean, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((enter) => {
      this.#waiting.push({ exclusive, enter });
      this.#admit();
    });
    try {
      return await work();
    } finally {
      this.#inside--;
      this.#exclusive = false;
      this.#admit();
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      const full = next.exclusive ? this.#inside > 0 : this.#inside >= this.#width;
      if (full || this.#exclusive) return;
      this.#waiting.shift();
      this.#inside++;
      this.#exclusive = next.exclusive;
      next.enter();
    }
  }
}
