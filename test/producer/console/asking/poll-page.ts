import type { PollPage } from '../../../../src/producer/console/poll.ts';
import { FakeClock } from '../../../../src/testing/fake-clock.ts';

/** A page whose time and visibility the test decides about. */
export class FakePage implements PollPage {
  readonly clock = new FakeClock();
  readonly #onShown = new Set<() => void>();
  #isHidden = false;

  isHidden(): boolean {
    return this.#isHidden;
  }

  onShown(act: () => void, leave: AbortSignal): void {
    this.#onShown.add(act);
    leave.addEventListener('abort', () => this.#onShown.delete(act));
  }

  later(ms: number, act: () => void): () => void {
    const controller = new AbortController();
    this.clock.sleep(ms, controller.signal).then(act, () => {});
    return () => controller.abort();
  }

  hide(): void {
    this.#isHidden = true;
  }

  show(): void {
    this.#isHidden = false;
    for (const act of this.#onShown) act();
  }
}
