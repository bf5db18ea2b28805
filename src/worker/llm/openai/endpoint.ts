import { request, type Dispatcher } from 'undici';

interface Endpoint {
  readonly baseUrl: string;
  readonly key: string | undefined;
  readonly dispatcher: Dispatcher | undefined;
}

/** The HTTP status with which a provider answers for its list of models, which costs nothing. Rejects when it cannot be reached. */
export async function askForModels({ baseUrl, key, dispatcher }: Endpoint, signal: AbortSignal): Promise<number> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const url = `${baseUrl.replace(/\/$/, '')}/models`;
  const { statusCode, body } = await request(url, { headers, signal, ...(dispatcher && { dispatcher }) });
  await body.dump().catch(() => {});
  return statusCode;
}
