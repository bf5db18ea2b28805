import { Empty } from '../../ui/states.tsx';

export function RunView({ id = '' }: { id?: string }) {
  return <Empty title={`${id}: this view is being built.`} />;
}
