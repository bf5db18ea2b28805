import { Empty } from '../../ui/states.tsx';

export function FleetView() {
  return <Empty title="This view is being built." />;
}
