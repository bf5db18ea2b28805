import { render } from 'preact';
import './styles/tokens.css';
import './styles/base.css';
import './styles/pieces.css';
import { App } from './app.tsx';
import { applyTheme } from './theme.ts';

applyTheme();
const root = document.getElementById('app');
if (root) render(<App />, root);
