import { Empty } from '../../ui/states.tsx';

export function MoneyView() {
  return <Empty title="This view is being built." />;
}
