import { Empty } from '../../ui/states.tsx';

export function AgentView({ id = '' }: { id?: string }) {
  return <Empty title={`${id}: this view is being built.`} />;
}
