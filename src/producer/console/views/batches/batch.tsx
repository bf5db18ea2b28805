import { Empty } from '../../ui/states.tsx';

export function BatchView({ id = '' }: { id?: string }) {
  return <Empty title={`${id}: this view is being built.`} />;
}
