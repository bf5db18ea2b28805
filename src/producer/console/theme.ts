import { signal } from '@preact/signals';

export const themes = ['system', 'light', 'dark'] as const;
export const themeNames = { system: 'System', light: 'Light', dark: 'Dark' } as const;
export type Theme = (typeof themes)[number];

const storageKey = 'millrace-theme';
const stored = localStorage.getItem(storageKey);

/** What the operator chose for this browser; `system` follows `prefers-color-scheme`. */
export const theme = signal<Theme>(themes.find((each) => each === stored) ?? 'system');

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  localStorage.setItem(storageKey, chosen);
  applyTheme();
}

/** Charts are drawn on canvases, which know no CSS: they listen for `themechange` on the window and draw again. */
export function applyTheme(): void {
  if (theme.value === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme.value;
  window.dispatchEvent(new Event('themechange'));
}
