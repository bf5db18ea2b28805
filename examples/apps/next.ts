// app/ask/route.ts exports POST, app/runs/[runId]/events/route.ts exports GET.
import { ask, follow } from './runs.ts';

// Redis needs a socket, which the edge runtime does not have.
export const runtime = 'nodejs';

export async function POST(request: Request): Promise<Response> {
  return await ask(await request.json());
}

export async function GET(request: Request, { params }: { params: Promise<{ runId: string }> }): Promise<Response> {
  return await follow((await params).runId, request);
}
