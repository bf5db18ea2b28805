import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { configSchema } from '../../src/shared/contract/config.ts';
import {
  chart,
  checkSchemas,
  container,
  deployments,
  everything,
  find,
  lint,
  minimal,
  render,
  template,
  withoutHelm,
  withoutSchemas,
} from './chart.ts';

describe.skipIf(withoutHelm)(`the chart${withoutHelm ? ` (left out: ${withoutHelm})` : ''}`, () => {
  test.each([
    ['minimal', minimal],
    ['everything', everything],
  ])('lints without a warning with %s values', (_, values) => {
    const { status, output } = lint(values);
    expect(output).toContain('0 chart(s) failed');
    expect(output).not.toMatch(/WARNING|ERROR/);
    expect(status).toBe(0);
  });

  test('without a secret the rendering stops and says what is missing', () => {
    expect(() => template([])).toThrow('existingSecret is required');
  });

  test('minimal values give three deployments, a service, two disruption budgets, a config map, an account and no secret', () => {
    const kinds = render(minimal).map((resource) => `${resource.kind} ${resource.metadata.name}`);
    expect(kinds.sort()).toEqual([
      'ConfigMap rel-millrace',
      'Deployment rel-millrace-producer',
      'Deployment rel-millrace-quarantine',
      'Deployment rel-millrace-worker',
      'PodDisruptionBudget rel-millrace-producer',
      'PodDisruptionBudget rel-millrace-worker',
      'Service rel-millrace-producer',
      'ServiceAccount rel-millrace',
    ]);
  });

  test.each([
    ['minimal', minimal],
    ['everything', everything],
  ])('every pod is probed, bounded and unprivileged with %s values', (_, values) => {
    const all = deployments(render(values));
    expect(all.length).toBeGreaterThanOrEqual(2);
    for (const deployment of all) {
      const pod = deployment.spec.template.spec;
      const [main] = pod.containers;
      const port = deployment.metadata.name.endsWith('producer') ? 'http' : 'metrics';
      expect(main.startupProbe).toMatchObject({
        httpGet: { path: '/healthz', port },
        periodSeconds: 2,
        failureThreshold: 30,
      });
      expect(main.livenessProbe).toMatchObject({ httpGet: { path: '/healthz', port } });
      expect(main.readinessProbe).toMatchObject({ httpGet: { path: '/readyz', port } });
      expect(main.ports.map((entry) => entry.name)).toEqual([port]);
      expect(Object.keys(main.resources.requests).sort()).toEqual(['cpu', 'memory']);
      expect(main.resources.limits['memory']).toMatch(/Mi|Gi/);
      expect(main.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(pod['securityContext']).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
      expect(main.volumeMounts).toContainEqual({ name: 'tmp', mountPath: '/tmp' });
    }
  });

  test('the selector of a deployment is the same for every version and label a user may set', () => {
    const plain = render(minimal);
    const changed = render([...minimal, '--set', 'image.tag=9.9.9,commonLabels.team=a']);
    for (const component of ['producer', 'worker', 'quarantine']) {
      const { selector, template: pod } = find(changed, 'Deployment', component).spec;
      expect(selector).toEqual(find(plain, 'Deployment', component).spec.selector);
      expect(selector.matchLabels).toEqual({
        'app.kubernetes.io/name': 'millrace',
        'app.kubernetes.io/instance': 'rel',
        'app.kubernetes.io/component': component,
      });
      expect(pod.metadata.labels).toMatchObject({ ...selector.matchLabels, team: 'a' });
    }
  });

  test('services and disruption budgets select the pods of their component', () => {
    const all = render(minimal);
    for (const budget of all.filter((resource) => resource.kind === 'PodDisruptionBudget')) {
      const component = budget.metadata.name.split('-').at(-1) ?? '';
      expect(budget.spec.selector.matchLabels).toEqual(find(all, 'Deployment', component).spec.selector.matchLabels);
      expect(budget.spec.maxUnavailable).toBe(1);
    }
    const service = find(all, 'Service', 'producer');
    expect(service.spec.selector).toEqual(find(all, 'Deployment', 'producer').spec.selector.matchLabels);
    expect(service.spec.ports).toEqual([{ name: 'http', port: 8080, targetPort: 'http' }]);
  });

  test('secrets reach a pod only by reference, and only the pod that needs them', () => {
    const text = template(minimal);
    expect(text).not.toMatch(/redis:\/\/|sk-/);
    const all = render(minimal);
    const references = (component: string) =>
      container(all, component).env.flatMap((entry) => (entry.valueFrom ? [[entry.name, entry.valueFrom]] : []));
    const from = (key: string) => [key, { secretKeyRef: { name: 'millrace', key } }];
    expect(references('producer')).toEqual([from('MILLRACE_API_KEYS'), from('REDIS_URL')]);
    expect(references('worker')).toEqual([from('OPENAI_API_KEY'), from('REDIS_URL')]);
    expect(references('quarantine')).toEqual([from('OPENAI_API_KEY'), from('REDIS_URL')]);
    const data = all.flatMap((resource) => Object.keys(resource.data ?? {}));
    expect(data.filter((name) => /KEY|URL|SECRET|TOKEN|PASSWORD/.test(name))).toEqual([]);
  });

  test.each(['REDIS_URL', 'OPENAI_API_KEY', 'MILLRACE_API_KEYS', 'SHUTDOWN_GRACE', 'WORKER_PORT'])(
    'config refuses %s',
    (name) => {
      expect(() => template([...minimal, '--set-string', `config.${name}=x`])).toThrow(name);
    },
  );

  test('config accepts exactly the settings that are neither secret nor set by the chart nor files', () => {
    const elsewhere = [
      'NODE_ENV',
      'REDIS_URL',
      'REDIS_SENTINEL_PASSWORD',
      'MILLRACE_AGENTS',
      'HOST',
      'PORT',
      'WORKER_PORT',
      'WORKER_CONCURRENCY',
      'WORKER_QUEUES',
      'OPENAI_API_KEY',
      'MILLRACE_API_KEYS',
      'ERASURE_KEY',
      // Of clients.
      'MILLRACE_URL',
      'MILLRACE_API_KEY',
      'MILLRACE_PROVIDERS',
      'MILLRACE_PRICES',
      'MILLRACE_TENANTS',
      'MILLRACE_POLICIES',
      'MILLRACE_SECRETS',
      'MILLRACE_SCRIPT',
    ];
    const schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8')) as {
      properties: { config: { properties: Record<string, unknown> } };
    };
    const expected = Object.keys(configSchema.shape).filter((name) => !elsewhere.includes(name));
    expect(Object.keys(schema.properties.config.properties).sort()).toEqual(expected.sort());
  });

  test('the password of Sentinels comes from the secret, where a key is named for it', () => {
    const withKey = [...minimal, '--set', 'secretKeys.redisSentinelPassword=sentinel'];
    for (const component of ['producer', 'worker']) {
      const names = (values: readonly string[]) => container(render(values), component).env.map(({ name }) => name);
      expect(names(minimal)).not.toContain('REDIS_SENTINEL_PASSWORD');
      expect(names(withKey)).toContain('REDIS_SENTINEL_PASSWORD');
    }
  });

  test('rules and the secrets of tools reach workers as files, and no other process', () => {
    const all = render([...minimal, '--set', 'policies=rules: []', '--set', 'toolSecrets.existingSecret=shop']);
    expect(find(all, 'ConfigMap', 'policies').data).toEqual({ 'policies.yaml': 'rules: []\n' });
    for (const component of ['worker', 'quarantine']) {
      const { env, volumeMounts } = container(all, component);
      expect(env).toContainEqual({ name: 'MILLRACE_POLICIES', value: '/etc/millrace/policies.yaml' });
      expect(env).toContainEqual({ name: 'MILLRACE_SECRETS', value: '/run/millrace/secrets' });
      expect(volumeMounts).toContainEqual({ name: 'tool-secrets', mountPath: '/run/millrace/secrets', readOnly: true });
      const { volumes } = find(all, 'Deployment', component).spec.template.spec as unknown as { volumes: unknown[] };
      expect(volumes).toContainEqual({ name: 'tool-secrets', secret: { secretName: 'shop' } });
      expect(volumes).toContainEqual({ name: 'policies', configMap: { name: 'rel-millrace-policies' } });
    }
    expect(JSON.stringify(find(all, 'Deployment', 'producer'))).not.toMatch(/tool-secrets|MILLRACE_SECRETS/);
    expect(template(minimal)).not.toMatch(/MILLRACE_POLICIES|MILLRACE_SECRETS|-policies/);
  });

  test('every variable that a pod gets is one that the configuration knows', () => {
    const all = render(minimal);
    const names = [
      ...Object.keys(find(all, 'ConfigMap', 'millrace').data ?? {}),
      ...deployments(all).flatMap((d) => d.spec.template.spec.containers[0].env.map((e) => e.name)),
    ];
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !(name in configSchema.shape))).toEqual([]);
  });

  test('numbers of the configuration stay whole numbers', () => {
    expect(find(render(everything), 'ConfigMap', 'agents-mill').data).toMatchObject({
      SHUTDOWN_GRACE_MS: '120500',
      QUEUE_MAX_LENGTH: '2000000',
      LOG_LEVEL: 'debug',
      NODE_ENV: 'production',
      HOST: '0.0.0.0',
    });
  });

  test('pods are given longer than the grace to hand their runs over', () => {
    const seconds = (values: readonly string[], component: string) =>
      find(render(values), 'Deployment', component).spec.template.spec.terminationGracePeriodSeconds;
    expect(seconds(minimal, 'worker')).toBe(25 + 15);
    expect(seconds(minimal, 'quarantine')).toBe(25 + 15);
    expect(seconds(minimal, 'producer')).toBe(25 + 5 + 15);
    expect(seconds(everything, 'worker')).toBe(121 + 15);
    expect(seconds(everything, 'producer')).toBe(200);
    expect(seconds([...minimal, '--set', 'config.SHUTDOWN_GRACE_MS=0'], 'worker')).toBe(15);
  });

  test.each(['producer', 'worker', 'quarantine'])(
    'a grace period that would cut the hand-over of the %s short is refused',
    (component) => {
      expect(() => template([...minimal, '--set', `${component}.terminationGracePeriodSeconds=30`])).toThrow(
        `${component}.terminationGracePeriodSeconds is 30`,
      );
    },
  );

  test('a leaving producer answers until it is out of the endpoints', () => {
    expect(container(render(minimal), 'producer').lifecycle).toEqual({
      preStop: { exec: { command: ['sleep', '5'] } },
    });
    expect(container(render(minimal), 'worker').lifecycle).toBeUndefined();
  });

  test('the quarantine worker is one pod for one queue and one run at a time, replaced rather than rolled', () => {
    const deployment = find(render(minimal), 'Deployment', 'quarantine');
    expect(deployment.spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
    expect(container(render(minimal), 'quarantine').env).toEqual(
      expect.arrayContaining([
        { name: 'WORKER_QUEUES', value: 'quarantine' },
        { name: 'WORKER_CONCURRENCY', value: '1' },
      ]),
    );
    expect(deployments(render(everything)).map((resource) => resource.metadata.name)).toEqual([
      'agents-mill-producer',
      'agents-mill-worker',
    ]);
  });

  test('agent files are mounted by path, read-only, for workers only', () => {
    const all = render(everything);
    const pod = find(all, 'Deployment', 'worker').spec.template.spec;
    expect(find(all, 'ConfigMap', 'agents').data).toMatchObject({
      'support.yaml': expect.stringContaining('model: gpt-5.2-mini'),
      'tools--lookup_order.ts': expect.stringContaining('defineTool'),
    });
    expect(pod.volumes).toContainEqual({
      name: 'agents',
      configMap: {
        name: 'agents-mill-agents',
        items: [
          { key: 'support.yaml', path: 'support.yaml' },
          { key: 'tools--lookup_order.ts', path: 'tools/lookup_order.ts' },
        ],
      },
    });
    expect(pod.containers[0].volumeMounts).toContainEqual({ name: 'agents', mountPath: '/agents', readOnly: true });
    expect(container(all, 'producer').volumeMounts.map((mount) => mount.name)).toEqual(['tmp']);
  });

  test('an existing config map of agents is mounted as it is, and without one the folder of the image stays', () => {
    const given = render([...minimal, '--set', 'agents.existingConfigMap=mine']);
    expect(find(given, 'Deployment', 'worker').spec.template.spec.volumes).toContainEqual({
      name: 'agents',
      configMap: { name: 'mine' },
    });
    expect(given.filter((resource) => resource.kind === 'ConfigMap')).toHaveLength(1);
    expect(container(render(minimal), 'worker').volumeMounts.map((mount) => mount.name)).toEqual(['tmp']);
  });

  test('the volume of files and large results is mounted into all pods, at the folder that they are told', () => {
    const volume = ['--set', 'artifactVolume.persistentVolumeClaim.claimName=shared'];
    const all = render([...minimal, '--set', 'config.ARTIFACT_STORE=file:///var/lib/files', ...volume]);
    for (const component of ['producer', 'worker', 'quarantine']) {
      const { volumes } = find(all, 'Deployment', component).spec.template.spec;
      expect(volumes).toContainEqual({ name: 'artifacts', persistentVolumeClaim: { claimName: 'shared' } });
      const mount = { name: 'artifacts', mountPath: '/var/lib/files' };
      expect(container(all, component).volumeMounts).toContainEqual(mount);
    }
  });

  test('a folder of files that pods do not share stops the rendering, and so does a volume without a folder', () => {
    expect(() => template([...minimal, '--set', 'config.ARTIFACT_STORE=file:/files'])).toThrow('set artifactVolume');
    expect(() => template([...minimal, '--set', 'artifactVolume.emptyDir.medium=Memory'])).toThrow(
      'artifactVolume needs config.ARTIFACT_STORE',
    );
    const s3 = render([...minimal, '--set', 'config.ARTIFACT_STORE=s3://bucket']);
    expect(container(s3, 'producer').volumeMounts.map((mount) => mount.name)).toEqual(['tmp']);
  });

  test('a change of the configuration or of an agent rolls the pods that read it', () => {
    const sums = (values: readonly string[], component: string) =>
      find(render(values), 'Deployment', component).spec.template.metadata.annotations;
    const config = ['--set', 'config.LOG_LEVEL=debug'];
    const agents = ['--set', 'agents.files.a\\.yaml=x'];
    for (const component of ['producer', 'worker', 'quarantine']) {
      expect(sums([...minimal, ...config], component)['checksum/config']).not.toBe(
        sums(minimal, component)['checksum/config'],
      );
    }
    expect(sums([...minimal, ...agents], 'worker')['checksum/agents']).not.toBe(
      sums(minimal, 'worker')['checksum/agents'],
    );
    expect(sums([...minimal, ...agents], 'producer')).toEqual(sums(minimal, 'producer'));
  });

  test('no service-account token is mounted, and an own account can be used', () => {
    expect(find(render(minimal), 'ServiceAccount', 'millrace').automountServiceAccountToken).toBe(false);
    const own = render([...minimal, '--set', 'serviceAccount.create=false,serviceAccount.name=mine']);
    expect(own.some((resource) => resource.kind === 'ServiceAccount')).toBe(false);
    expect(find(own, 'Deployment', 'worker').spec.template.spec['serviceAccountName']).toBe('mine');
  });

  test('every other value arrives where it belongs', () => {
    const all = render(everything);
    const worker = find(all, 'Deployment', 'worker').spec;
    const pod = worker.template.spec;
    expect(worker.replicas).toBe(5);
    expect(pod).toMatchObject({
      nodeSelector: { pool: 'agents' },
      tolerations: [{ key: 'agents' }],
      affinity: { nodeAffinity: {} },
      imagePullSecrets: [{ name: 'registry-login' }],
      serviceAccountName: 'mill-runner',
      topologySpreadConstraints: [{ topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'DoNotSchedule' }],
    });
    expect(pod.containers[0]).toMatchObject({
      image: `registry.example/team/millrace@sha256:${'0123456789abcdef'.repeat(4)}`,
      imagePullPolicy: 'Always',
      resources: { requests: { cpu: '2' }, limits: { memory: '2Gi' } },
    });
    expect(pod.containers[0].env.map((entry) => entry.name)).toEqual([
      'REDIS_URL',
      'WORKER_QUEUES',
      'WORKER_CONCURRENCY',
      'MILLRACE_PROVIDERS',
      'ACME_KEY',
    ]);
    expect(pod.volumes.map((volume) => volume.name)).toContain('providers');
    expect(pod.containers[0].volumeMounts).toContainEqual({
      name: 'providers',
      mountPath: '/etc/millrace',
      readOnly: true,
    });
    expect(find(all, 'PodDisruptionBudget', 'worker').spec.maxUnavailable).toBe('20%');
    expect(all.filter((resource) => resource.kind === 'PodDisruptionBudget')).toHaveLength(1);
    expect(find(all, 'Service', 'producer')).toMatchObject({
      metadata: { annotations: { internal: 'true' } },
      spec: { type: 'LoadBalancer' },
    });
    const producer = find(all, 'Deployment', 'producer').spec.template;
    expect(producer.metadata.annotations['scrape']).toBe('true');
    expect(producer.spec['priorityClassName']).toBe('high');
    expect(container(render([...minimal, '--set', 'image.tag=2.0.0']), 'producer').image).toBe('millrace:2.0.0');
  });

  test.each([
    ['an unknown value', 'workers.replicaCount=2', 'workers'],
    ['a misspelt field', 'worker.replicas=2', 'replicas'],
    [
      'a label that would collide with a selector',
      'commonLabels.app\\.kubernetes\\.io/name=x',
      'app.kubernetes.io/name',
    ],
    ['a queue name that the worker would refuse', 'worker.queues={Runs}', 'queues'],
    ['an agent path that climbs out', 'agents.files.\\.\\./x=y', '../x'],
    ['a concurrency of nothing', 'worker.concurrency=0', 'concurrency'],
  ])('%s is refused', (_, setting, complaint) => {
    expect(() => template([...minimal, '--set', setting])).toThrow(complaint);
  });

  test.skipIf(withoutSchemas).each([
    ['minimal', minimal],
    ['everything', everything],
  ])(
    `the schemas of Kubernetes accept it with %s values${withoutSchemas ? ` (left out: ${withoutSchemas})` : ''}`,
    (_, values) => {
      expect(checkSchemas(template(values))).toEqual({ status: 0, output: expect.stringContaining('OK') });
      const broken = checkSchemas(template(values).replaceAll('livenessProbe:', 'livelinessProbe:'));
      expect(broken).toEqual({ status: 1, output: expect.stringContaining('livelinessProbe') });
    },
  );
});
