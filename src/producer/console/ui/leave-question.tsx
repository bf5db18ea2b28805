import { useLayoutEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { Dialog } from './dialog.tsx';
import { askBeforeLeaving, asked, isSomethingUnsaved, leaveAllTheSame, stay } from './unsaved.ts';

/**
 * The question, once for the page. It lies above everything, dialogs too: it is in sight wherever one has scrolled to. Only its button
 * leaves; Escape, and a click beside it, stay. `paths`: what is a link inside of the console.
 */
export function LeaveQuestion({ paths }: { paths: RegExp }) {
  useGuard(paths);
  if (!asked.value) return null;
  return (
    <Dialog title="Leave without sending?" onClose={stay}>
      <p>What you have filled in would be lost.</p>
      <footer class="row end">
        <button type="button" onClick={stay}>
          Stay here
        </button>
        <button type="button" class="danger" onClick={leaveAllTheSame}>
          Leave it
        </button>
      </footer>
    </Dialog>
  );
}

/** Listens before the router does: of two listeners of the window the first one is asked first, and effects of children come first. */
function useGuard(paths: RegExp): void {
  const { url, route } = useLocation();
  const here = useRef(url);
  here.current = url;
  useLayoutEffect(() => {
    const onClick = (event: MouseEvent) => {
      const to = isSomethingUnsaved() ? followed(event, paths) : undefined;
      if (to === undefined) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      askBeforeLeaving(() => route(to));
    };
    const onBack = (event: PopStateEvent) => {
      if (!isSomethingUnsaved() || location.pathname + location.search === here.current) return;
      event.stopImmediatePropagation();
      // The browser is there already: what was left lies in front of it again, and one step back leads there once more.
      history.pushState(null, '', here.current);
      askBeforeLeaving(() => history.back());
    };
    window.addEventListener('click', onClick, true);
    window.addEventListener('popstate', onBack, true);
    return () => {
      window.removeEventListener('click', onClick, true);
      window.removeEventListener('popstate', onBack, true);
    };
  }, []);
}

/** Where in the console a click leads, in this tab. */
function followed(event: MouseEvent, paths: RegExp): string | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.button !== 0) return undefined;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const href = link?.getAttribute('href');
  if (!link || !href || !paths.test(href) || link.target !== '' || link.hasAttribute('download')) return undefined;
  return link.href.replace(location.origin, '');
}
