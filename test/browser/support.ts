import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import { World, type WorldOptions } from '../support/world.ts';

const root = join(import.meta.dirname, '../..');
/** Screenshots of the last run, for people to look at: `name-light.png` and `name-dark.png`. */
export const screenshots = process.env['SCREENSHOTS'] ?? join(root, '.cache/screenshots');

const candidates = [
  process.env['CHROMIUM_BIN'] ?? '',
  ...(process.env['PATH'] ?? '')
    .split(delimiter)
    .flatMap((folder) => ['chromium', 'chromium-browser', 'google-chrome'].map((name) => join(folder, name))),
];
/** Where Chromium is on this machine; `scripts/setup.mjs tests` sees to one where it can. */
export const chromiumPath = candidates.find((path) => path !== '' && existsSync(path));

/**
 * A suite that needs a browser. Without Chromium it is skipped; where `CI` is set it fails instead, so that an untested
 * console is never taken for a tested one.
 */
export const describeInBrowser = chromiumPath === undefined && process.env['CI'] !== 'true' ? describe.skip : describe;

const args = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
];

/** One Chromium for a file, and for each test a profile of its own in it. */
export function useBrowser(): { readonly open: (options?: OpenOptions) => Promise<ConsolePage> } {
  let browser: Browser | undefined;
  const profile = mkdtempSync(join(tmpdir(), 'millrace-chromium-'));
  beforeAll(async () => {
    buildConsole();
    if (chromiumPath === undefined) throw new Error('there is no Chromium: apt-get install chromium');
    // Its own profile folder: Chromium keeps crash reports and caches beside it.
    browser = await chromium.launch({ executablePath: chromiumPath, args, env: { ...process.env, HOME: profile } });
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(profile, { recursive: true, force: true });
  });
  return {
    open: async (options = {}) => {
      if (!browser) throw new Error('the browser is not there yet: open pages in tests');
      return await ConsolePage.open(browser, options);
    },
  };
}

let isBuilt = false;

/** What a producer from source serves, of the present source. */
export function buildConsole(): void {
  if (isBuilt) return;
  const { status, stderr } = spawnSync(process.execPath, ['scripts/setup.mjs', 'console'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  isBuilt = true;
}

/** A world with a producer over HTTP and one worker, for a whole file. */
export function useConsoleWorld(options: WorldOptions = {}): { readonly current: World } {
  const holder: { world?: World } = {};
  beforeAll(async () => {
    buildConsole();
    // A browser keeps the machine busy: a short lease would lapse.
    const env = { LOCK_DURATION_MS: '15000', ...options.env };
    holder.world = await World.start({ workers: 1, producer: true, ...options, env });
  });
  afterAll(async () => {
    await holder.world?.dispose();
  });
  return {
    get current() {
      if (!holder.world) throw new Error('the world is not there yet');
      return holder.world;
    },
  };
}

export interface OpenOptions {
  /** Base URL of the producer. */
  readonly url?: string;
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: 'light' | 'dark';
  /** Where its clock is, such as `America/New_York`. Default: that of the machine. */
  readonly timezoneId?: string;
}

/** Requests that a page may make: to the producer it came from. */
const allowed = /^(?:data|blob|about):/;

/** A page of the console in a profile of its own, which is closed with its test. What it says wrong fails the test. */
export class ConsolePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Requests to anywhere else, errors of scripts, and what the policy of the page refused. */
  readonly complaints: string[] = [];
  readonly #url: string;

  private constructor(context: BrowserContext, page: Page, url: string) {
    this.context = context;
    this.page = page;
    this.#url = url;
    page.on('pageerror', (error) => this.complaints.push(`script: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && /content security policy|refused to/i.test(message.text()))
        this.complaints.push(`policy: ${message.text()}`);
    });
    context.on('request', (request) => {
      if (url !== '' && !request.url().startsWith(`${url}/`) && !allowed.test(request.url()))
        this.complaints.push(`elsewhere: ${request.url()}`);
    });
  }

  static async open(browser: Browser, options: OpenOptions) {
    const { url = '', width = 1_280, height = 800, colorScheme = 'light', timezoneId } = options;
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme,
      ...(timezoneId !== undefined && { timezoneId }),
      reducedMotion: 'reduce',
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    context.setDefaultTimeout(60_000);
    onTestFinished(() => context.close());
    return new ConsolePage(context, await context.newPage(), url);
  }

  /** Opens a view by its path. */
  async visit(path: string): Promise<void> {
    await this.page.goto(this.#url + path);
  }

  /** Fails with what axe finds that is serious or worse. */
  async checkAccessibility(): Promise<void> {
    await this.page.evaluate(axeSource());
    const found = await this.page.evaluate(async () => {
      const { axe } = globalThis as unknown as { axe: { run: (options: object) => Promise<AxeResults> } };
      const { violations } = await axe.run({ resultTypes: ['violations'] });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(
          ({ id, nodes }) =>
            `${id}: ${nodes.map((node) => `${node.target.join(' ')} (${node.failureSummary})`).join('; ')}`,
        );
    });
    if (found.length > 0) throw new Error(`axe finds at ${this.page.url()}:\n${found.join('\n')}`);
  }

  /** Writes what is on the screen in light and in dark into {@link screenshots}. */
  async screenshot(name: string): Promise<void> {
    mkdirSync(screenshots, { recursive: true });
    for (const colorScheme of ['light', 'dark'] as const) {
      await this.page.emulateMedia({ colorScheme });
      await this.page.screenshot({ path: join(screenshots, `${name}-${colorScheme}.png`) });
    }
    await this.page.emulateMedia({ colorScheme: 'light' });
  }

  /** Fails when the page asked another host, threw, or did what its policy forbids. */
  checkComplaints(): void {
    if (this.complaints.length > 0) throw new Error(this.complaints.join('\n'));
  }

  /** Accessibility in both schemes, screenshots of both, and no complaint: what every view has to pass. */
  async checkView(name: string): Promise<void> {
    await this.screenshot(name);
    for (const colorScheme of ['light', 'dark'] as const) {
      await this.page.emulateMedia({ colorScheme });
      await this.checkAccessibility();
    }
    await this.page.emulateMedia({ colorScheme: 'light' });
    this.checkComplaints();
  }
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string | null;
    readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
  }[];
}

let axe: string | undefined;

/** Evaluated by the debugger, which the policy of the page does not bind. */
function axeSource(): string {
  axe ??= (createRequire(import.meta.url)('axe-core') as { source: string }).source;
  return axe;
}
