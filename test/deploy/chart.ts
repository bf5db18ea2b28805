import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { chartTool } from '../../scripts/helm.ts';

export const chart = join(import.meta.dirname, '../../helm/millrace');
export const minimal = ['-f', join(chart, 'ci/minimal-values.yaml')];
export const everything = ['-f', join(chart, 'ci/everything-values.yaml')];
/** The newest version whose schemas kubectl-validate carries; a helm built with Go says 1.20 of itself. */
const kubeVersion = '1.30.0';

const helm = await chartTool('helm', process.env);
const validate = 'missing' in helm ? helm : await chartTool('kubectl-validate', process.env);

/** Why the chart, or its schemas, cannot be checked on this machine; undefined when they can. */
export const withoutHelm = 'missing' in helm ? helm.missing : undefined;
export const withoutSchemas = 'missing' in validate ? validate.missing : undefined;
const leftOut = withoutHelm ?? withoutSchemas;
if (process.env['CI'] && leftOut) throw new Error(`nothing may be left out on CI: ${leftOut}`);

interface Probe {
  httpGet: { path: string; port: string };
}
export interface Container {
  name: string;
  image: string;
  args: string[];
  env: { name: string; value?: string; valueFrom?: unknown }[];
  envFrom: { configMapRef: { name: string } }[];
  ports: { name: string; containerPort: number }[];
  resources: { requests: Record<string, string>; limits: Record<string, string> };
  securityContext: unknown;
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
  lifecycle?: unknown;
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[];
}
interface PodSpec {
  terminationGracePeriodSeconds: number;
  containers: [Container];
  volumes: { name: string; configMap?: { name: string; items?: { key: string; path: string }[] } }[];
  [field: string]: unknown;
}
export interface Resource {
  kind: string;
  metadata: { name: string; labels: Record<string, string>; annotations?: Record<string, string> };
  data?: Record<string, string>;
  automountServiceAccountToken?: boolean;
  spec: {
    replicas: number;
    strategy: unknown;
    maxUnavailable?: unknown;
    type?: string;
    ports?: { port: number; targetPort: string }[];
    selector: { matchLabels: Record<string, string> } & Record<string, string>;
    template: { metadata: { labels: Record<string, string>; annotations: Record<string, string> }; spec: PodSpec };
  };
}

export function lint(values: readonly string[]): { status: number | null; output: string } {
  return runHelm(['lint', '--strict', '--kube-version', kubeVersion, chart, ...values]);
}

/** The rendered chart as text. Throws with helm's complaint when it does not render. */
export function template(values: readonly string[]): string {
  const { status, output } = runHelm(['template', 'rel', chart, '--kube-version', kubeVersion, ...values]);
  if (status !== 0) throw new Error(output);
  return output;
}

export function render(values: readonly string[]): Resource[] {
  const documents = parseAllDocuments(template(values));
  const mistakes = documents.flatMap((document) => document.errors);
  if (mistakes.length > 0) throw mistakes[0];
  return documents.map((document) => document.toJS() as Resource | null).filter((resource) => resource !== null);
}

/** Checks every rendered object against the schemas of Kubernetes. */
export function checkSchemas(rendered: string): { status: number | null; output: string } {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-chart-'));
  try {
    writeFileSync(join(dir, 'chart.yaml'), rendered);
    return run(pathOf(validate), ['--version', kubeVersion.replace(/\.0$/, ''), join(dir, 'chart.yaml')]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export function find(resources: readonly Resource[], kind: string, end: string): Resource {
  const found = resources.find((resource) => resource.kind === kind && resource.metadata.name.endsWith(end));
  if (!found) throw new Error(`no ${kind} …${end}`);
  return found;
}

export function container(resources: readonly Resource[], component: string): Container {
  return find(resources, 'Deployment', component).spec.template.spec.containers[0];
}

export function deployments(resources: readonly Resource[]): Resource[] {
  return resources.filter((resource) => resource.kind === 'Deployment');
}

function runHelm(args: readonly string[]): { status: number | null; output: string } {
  return run(pathOf(helm), args);
}

function run(path: string, args: readonly string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(path, args, { encoding: 'utf8', timeout: 60_000 });
  return { status, output: stdout + stderr };
}

function pathOf(tool: { path: string } | { missing: string }): string {
  if ('path' in tool) return tool.path;
  throw new Error(tool.missing);
}
