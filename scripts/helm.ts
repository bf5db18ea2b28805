import { goTool } from './go-tool.ts';

const packages = {
  helm: 'helm.sh/helm/v3/cmd/helm@v3.22.0',
  'kubectl-validate': 'sigs.k8s.io/kubectl-validate@v0.0.4',
};

export type ChartTool = keyof typeof packages;

/** Path of a tool that checks the chart, or the reason why there is none: see `goTool`. */
export async function chartTool(
  name: ChartTool,
  env: NodeJS.ProcessEnv,
): Promise<{ path: string } | { missing: string }> {
  return await goTool(name, packages[name], env);
}

if (import.meta.main) {
  for (const name of Object.keys(packages) as ChartTool[]) {
    const tool = await chartTool(name, process.env);
    console.log(`${name}: ${'path' in tool ? tool.path : tool.missing}`);
    if ('missing' in tool) process.exitCode = 1;
  }
}
