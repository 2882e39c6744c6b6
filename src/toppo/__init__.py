"""toppo."""
