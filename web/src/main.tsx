import { render } from 'preact';
import { App } from './app';
import './style.css';

const theme = localStorage.getItem('theme');
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;

const root = document.getElementById('app');
if (root) render(<App />, root);
