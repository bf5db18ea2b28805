import type { Scope } from '../../shared/contract/config.ts';
import { api, ApiError } from './api.ts';
import { session } from './session.ts';

interface SessionAnswer {
  readonly tenant: string;
  readonly scopes: readonly Scope[];
  readonly keys: boolean;
}

/** Asks who this browser is. Only an answer changes the session: while the producer is away it stays as it was. */
export async function loadSession(leave?: AbortSignal): Promise<void> {
  try {
    session.value = { state: 'in', ...(await api<SessionAnswer>('/v1/session', leave && { signal: leave })) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
}

export async function logIn(apiKey: string): Promise<void> {
  await api('/v1/session', { method: 'POST', body: { apiKey } });
}

export async function logOut(): Promise<void> {
  await api('/v1/session', { method: 'DELETE' });
  session.value = { state: 'out' };
}
