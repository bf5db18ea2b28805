interface Gate {
  readonly opened: Promise<void>;
  readonly reached: Promise<void>;
  open(): void;
  reach(): void;
}

/** Named points at which code waits until the test opens the gate. */
export class Gates {
  readonly #gates = new Map<string, Gate>();

  /** Resolves once the gate is open; at once when it already is. Resolves {@link reached}. */
  passed(name: string): Promise<void> {
    const gate = this.#gate(name);
    gate.reach();
    return gate.opened;
  }

  /** Resolves once code waits at the gate or has passed it. */
  reached(name: string): Promise<void> {
    return this.#gate(name).reached;
  }

  /** Opens the gate, now and later. */
  open(name: string): void {
    this.#gate(name).open();
  }

  openAll(): void {
    for (const gate of this.#gates.values()) gate.open();
  }

  #gate(name: string): Gate {
    const known = this.#gates.get(name);
    if (known) return known;
    const opened = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const gate = { opened: opened.promise, reached: reached.promise, open: opened.resolve, reach: reached.resolve };
    this.#gates.set(name, gate);
    return gate;
  }
}
